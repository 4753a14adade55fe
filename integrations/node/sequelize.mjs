import entry from './sequelize.js';

export const { fromSequelize } = entry;
